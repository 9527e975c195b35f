import { PageHeader } from "@/components/PageHeader";

export function DevicesPage() {
  return <PageHeader title="Devices" />;
}
