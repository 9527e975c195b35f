import {
  Badge,
  Button,
  createTheme,
  type CSSVariablesResolver,
  localStorageColorSchemeManager,
  type MantineColorsTuple,
  Modal,
  NumberInput,
  Paper,
  Select,
  Table,
  TagsInput,
  TextInput,
  Tooltip,
} from "@mantine/core";

const weave: MantineColorsTuple = [
  "#e7f6f4",
  "#d2ebe7",
  "#a5d6cf",
  "#74c1b6",
  "#4dafa2",
  "#34a495",
  "#239486",
  "#108074",
  "#006e64",
  "#005b53",
];

/** Cooler than Mantine's own greys, and with a clear step from the page to a panel. */
const dark: MantineColorsTuple = [
  "#d8dde3",
  "#b4bcc6",
  "#939da9",
  "#6e7985",
  "#333b45",
  "#2a3139",
  "#222830",
  "#1b2027",
  "#14181d",
  "#0e1115",
];

const SANS =
  'Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';
const MONO =
  'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

export const theme = createTheme({
  colors: { weave, dark },
  primaryColor: "weave",
  primaryShade: { light: 8, dark: 7 },
  defaultRadius: "sm",
  fontFamily: SANS,
  fontFamilyMonospace: MONO,
  fontSizes: { xs: "0.75rem", sm: "0.8438rem", md: "0.9375rem" },
  headings: {
    fontFamily: SANS,
    fontWeight: "600",
    sizes: {
      h1: { fontSize: "1.375rem", lineHeight: "1.3" },
      h2: { fontSize: "0.9375rem", lineHeight: "1.4" },
    },
  },
  cursorType: "pointer",
  components: {
    Badge: Badge.extend({ defaultProps: { variant: "light", radius: "sm" } }),
    Button: Button.extend({ defaultProps: { size: "sm" } }),
    Modal: Modal.extend({ styles: { title: { fontWeight: 600 } } }),
    NumberInput: NumberInput.extend({ defaultProps: { size: "sm" } }),
    Paper: Paper.extend({ defaultProps: { withBorder: true, p: "md" } }),
    Select: Select.extend({ defaultProps: { size: "sm", allowDeselect: false } }),
    Table: Table.extend({ defaultProps: { verticalSpacing: 7, horizontalSpacing: "md" } }),
    TagsInput: TagsInput.extend({ defaultProps: { size: "sm" } }),
    TextInput: TextInput.extend({ defaultProps: { size: "sm" } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 300, withArrow: true } }),
  },
});

/** Colours whose light variant is used, for badges, notices and secondary buttons. */
const TINTED = ["weave", "red", "orange", "yellow", "green"];

/** The page behind the panels; and, in the dark, tints that whisper rather than shout. */
export const cssVariables: CSSVariablesResolver = () => ({
  variables: {},
  light: { "--plait-page": "#f6f8f8" },
  dark: {
    "--plait-page": "var(--mantine-color-dark-8)",
    ...Object.fromEntries(
      TINTED.flatMap((name) => [
        [
          `--mantine-color-${name}-light`,
          `color-mix(in srgb, var(--mantine-color-${name}-6) 16%, transparent)`,
        ],
        [
          `--mantine-color-${name}-light-hover`,
          `color-mix(in srgb, var(--mantine-color-${name}-6) 24%, transparent)`,
        ],
        [`--mantine-color-${name}-light-color`, `var(--mantine-color-${name}-3)`],
      ]),
    ),
  },
});

/** public/color-scheme.js reads the same key before the first paint. */
export const colorSchemeManager = localStorageColorSchemeManager({ key: "plait-color-scheme" });
