import { Center, Loader } from "@mantine/core";

export function Loading({ label }: { label: string }) {
  return (
    <Center mih={240} role="status" aria-label={label}>
      <Loader size="sm" />
    </Center>
  );
}
