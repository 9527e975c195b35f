import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const api = process.env.PLAIT_API ?? "http://127.0.0.1:8765";
// The API checks the Origin of writes, so the development server speaks in its name.
const proxied = { target: api, changeOrigin: true, headers: { origin: api } };

export default defineConfig({
  plugins: [react()],
  resolve: {
    alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) },
  },
  build: {
    outDir: "dist",
    // Plotly alone is 1.5 MB; it is a chunk of its own that only the job page loads.
    chunkSizeWarningLimit: 1600,
  },
  server: {
    proxy: { "/api": proxied, "/login": proxied, "/healthz": proxied },
  },
  test: {
    include: ["src/**/*.test.{ts,tsx}"],
    testTimeout: 30_000, // for what hangs; a busy machine only takes long
  },
});
