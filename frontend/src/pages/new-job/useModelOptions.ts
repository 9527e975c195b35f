import { useInfiniteQuery, useQuery } from "@tanstack/react-query";

import { uploadsQuery, zooQuery } from "@/api/queries";
import { shortId } from "@/lib/format";

interface ModelGroup {
  group: string;
  items: { value: string; label: string }[];
}

interface ModelOptions {
  groups: ModelGroup[];
  isPending: boolean;
  error: Error | null;
}

/** The zoo and the uploads to choose from, with `chosen` among them even if it is an old one. */
export function useModelOptions(chosen: string | undefined): ModelOptions {
  const zoo = useQuery(zooQuery);
  const uploads = useInfiniteQuery(uploadsQuery);

  const own = (uploads.data?.pages.flatMap((page) => page.items) ?? []).map((upload) => ({
    value: `upload:${upload.id}`,
    label: upload.filename,
  }));
  const built = (zoo.data ?? []).map((model) => ({ value: model.source, label: model.name }));
  const known = [...own, ...built].some(({ value }) => value === chosen);
  if (chosen?.startsWith("upload:") && !known) {
    own.push({ value: chosen, label: `upload ${shortId(chosen.slice("upload:".length))}` });
  }
  return {
    groups: [
      { group: "Zoo", items: built },
      { group: "Uploads", items: own },
    ].filter(({ items }) => items.length > 0),
    isPending: zoo.isPending || uploads.isPending,
    error: zoo.error ?? uploads.error,
  };
}
