import { PageHeader } from "@/components/PageHeader";

export function TokensPage() {
  return <PageHeader title="Tokens" />;
}
