import { ActionIcon, Button, Menu } from "@mantine/core";
import { IconMenu2, IconPlus } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

import type { Session } from "@/api/types";

import { Logo } from "../Logo";
import { ColorSchemeMenu } from "./ColorSchemeMenu";
import { SessionMenu } from "./SessionMenu";
import classes from "./Shell.module.css";

const PAGES = [
  { to: "/jobs", label: "Jobs" },
  { to: "/models", label: "Models" },
  { to: "/devices", label: "Devices" },
] as const;
const ADMIN_PAGES = [{ to: "/tokens", label: "Tokens" }] as const;

export function Header({ session }: { session: Session }) {
  const pages = session.scopes.includes("admin") ? [...PAGES, ...ADMIN_PAGES] : PAGES;
  return (
    <header className={classes.header}>
      <div className={classes.bar}>
        <Link to="/jobs" className={classes.brand}>
          <Logo />
          Plait
        </Link>
        <nav className={classes.nav} aria-label="Main">
          {pages.map(({ to, label }) => (
            <Link
              key={to}
              to={to}
              className={classes.link}
              activeOptions={{ includeSearch: false }}
            >
              {label}
            </Link>
          ))}
        </nav>
        <div className={classes.tools}>
          <Button
            size="xs"
            leftSection={<IconPlus size={14} />}
            renderRoot={(props) => <Link to="/jobs/new" {...props} />}
          >
            New job
          </Button>
          <ColorSchemeMenu />
          <SessionMenu session={session} />
          <Menu position="bottom-end" width={180}>
            <Menu.Target>
              <ActionIcon
                className={classes.burger}
                variant="subtle"
                color="gray"
                size="lg"
                aria-label="Pages"
              >
                <IconMenu2 size={18} />
              </ActionIcon>
            </Menu.Target>
            <Menu.Dropdown>
              {pages.map(({ to, label }) => (
                <Menu.Item key={to} renderRoot={(props) => <Link to={to} {...props} />}>
                  {label}
                </Menu.Item>
              ))}
            </Menu.Dropdown>
          </Menu>
        </div>
      </div>
    </header>
  );
}
