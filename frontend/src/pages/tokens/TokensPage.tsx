import { Paper } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { tokensQuery } from "@/api/queries";
import type { TokenCreated } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { PageHeader } from "@/components/PageHeader";

import { NewTokenButton } from "./NewTokenButton";
import { NewTokenNotice } from "./NewTokenNotice";
import { TokensTable } from "./TokensTable";

export function TokensPage() {
  const query = useQuery(tokensQuery);
  const [created, setCreated] = useState<TokenCreated | null>(null);
  return (
    <>
      <PageHeader
        title="Tokens"
        description="For programs: the command line, CI, your own scripts."
        actions={<NewTokenButton onCreated={setCreated} />}
      />
      {created && <NewTokenNotice token={created} onClose={() => setCreated(null)} />}
      <Paper p={0}>
        {query.isPending && <Loading label="Loading the tokens" />}
        {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
        {query.data?.length === 0 && (
          <EmptyState title="No token yet">
            A token lets a program speak to the API in your place, with only the scopes it needs.
          </EmptyState>
        )}
        {query.data && query.data.length > 0 && <TokensTable tokens={query.data} />}
      </Paper>
    </>
  );
}
