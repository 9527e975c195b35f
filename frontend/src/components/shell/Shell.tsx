import { useQuery } from "@tanstack/react-query";
import { Outlet } from "@tanstack/react-router";

import { sessionQuery } from "@/api/queries";

import { ErrorNotice } from "../ErrorNotice";
import { Loading } from "../Loading";
import { Header } from "./Header";
import { LoggedOut } from "./LoggedOut";
import classes from "./Shell.module.css";

/** The frame of every page; without a session it says how to get one. */
export function Shell() {
  const session = useQuery(sessionQuery);
  if (session.isPending) return <Loading label="Looking for your session" />;
  // A refresh that failed is no reason to take the page away: its own parts say what they lack.
  if (session.data === undefined) {
    return (
      <main className={classes.main}>
        <ErrorNotice error={session.error} onRetry={() => void session.refetch()} />
      </main>
    );
  }
  if (session.data === null) return <LoggedOut />;
  return (
    <>
      <a href="#main" className={classes.skip}>
        Skip to the content
      </a>
      <Header session={session.data} />
      <main id="main" className={classes.main}>
        <Outlet />
      </main>
    </>
  );
}
