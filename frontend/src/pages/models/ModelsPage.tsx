import { PageHeader } from "@/components/PageHeader";

export function ModelsPage() {
  return <PageHeader title="Models" />;
}
