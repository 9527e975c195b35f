import { PageHeader } from "@/components/PageHeader";

export function NewJobPage() {
  return <PageHeader title="New job" />;
}
