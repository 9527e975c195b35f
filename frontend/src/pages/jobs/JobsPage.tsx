import { PageHeader } from "@/components/PageHeader";

export function JobsPage() {
  return <PageHeader title="Jobs" />;
}
