import { PageHeader } from "@/components/PageHeader";

export function JobPage() {
  return <PageHeader title="Job" />;
}
