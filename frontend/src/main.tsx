import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "./app.css";

import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { createQueryClient } from "./api/queryClient";
import { createAppRouter } from "./router";
import { colorSchemeManager, cssVariables, theme } from "./theme";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no element with the id `root`");

createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={createQueryClient()}>
      <MantineProvider
        theme={theme}
        cssVariablesResolver={cssVariables}
        colorSchemeManager={colorSchemeManager}
        defaultColorScheme="auto"
      >
        <Notifications position="bottom-right" />
        <RouterProvider router={createAppRouter()} />
      </MantineProvider>
    </QueryClientProvider>
  </StrictMode>,
);
