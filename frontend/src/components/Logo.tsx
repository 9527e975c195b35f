/**
 * A braid of three strands. Each strand is a sine, a third of a turn from the next, and is cut
 * where another passes above it, so that the mark needs no background of its own.
 */
const STRANDS = [
  {
    colour: "var(--mantine-color-weave-6)",
    path: [
      "M17.4 1.0C19.0 1.9 20.4 2.8 21.7 3.8C22.9 4.7 23.9 5.6 24.6 6.5",
      "C25.3 7.5 25.7 8.4 25.6 9.4C25.5 10.3 25.1 11.2 24.3 12.1",
      "M16.7 17.8C15.2 18.6 13.7 19.5 12.4 20.4C11.0 21.2 9.8 22.1 8.8 23.0",
      "C7.8 23.9 7.1 24.8 6.7 25.8C6.3 26.6 6.3 27.5 6.6 28.4",
      "C6.9 29.2 7.6 30.1 8.5 31.0",
    ].join(""),
  },
  {
    colour: "#e0a100",
    path: [
      "M16.7 5.8C15.3 6.6 13.8 7.4 12.5 8.2C11.2 9.1 10.1 9.9 9.1 10.8",
      "C8.2 11.5 7.4 12.3 7.0 13.1C6.5 14.0 6.3 14.8 6.4 15.6",
      "C6.6 16.5 7.0 17.3 7.7 18.1",
      "M15.3 23.8C16.7 24.5 18.0 25.3 19.3 26.1C20.6 27.0 21.8 27.8 22.8 28.6",
      "C23.7 29.4 24.5 30.2 24.9 31.0",
    ].join(""),
  },
  {
    colour: "var(--mantine-color-gray-6)",
    path: [
      "M7.1 1.0C6.6 1.8 6.3 2.7 6.4 3.5C6.5 4.4 6.9 5.2 7.7 6.1",
      "M15.3 11.8C16.7 12.6 18.2 13.4 19.5 14.2C20.8 15.1 21.9 15.9 22.9 16.8",
      "C23.8 17.5 24.6 18.3 25.0 19.1C25.5 20.0 25.7 20.8 25.6 21.6",
      "C25.4 22.5 25.0 23.3 24.3 24.1",
    ].join(""),
  },
];

interface LogoProps {
  size?: number;
}

export function Logo({ size = 22 }: LogoProps) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" fill="none" strokeWidth="6.4" aria-hidden>
      {STRANDS.map(({ colour, path }) => (
        <path key={colour} d={path} stroke={colour} />
      ))}
    </svg>
  );
}
