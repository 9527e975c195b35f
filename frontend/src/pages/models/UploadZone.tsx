import { Button, FileButton, Text } from "@mantine/core";
import { IconUpload } from "@tabler/icons-react";
import { type DragEvent, useRef, useState } from "react";

import classes from "./UploadZone.module.css";

interface UploadZoneProps {
  /** What can be dropped here, for people. */
  formats: readonly string[];
  onFiles: (files: readonly File[]) => void;
}

/** Where model files are dropped or chosen. What a file is, the service decides. */
export function UploadZone({ formats, onFiles }: UploadZoneProps) {
  const [over, setOver] = useState(false);
  // Moving onto a child leaves the parent, so enters and leaves are counted.
  const depth = useRef(0);
  const resetChooser = useRef<() => void>(null);

  const enter = (event: DragEvent) => {
    event.preventDefault();
    depth.current += 1;
    setOver(true);
  };
  const leave = () => {
    depth.current -= 1;
    if (depth.current === 0) setOver(false);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    depth.current = 0;
    setOver(false);
    onFiles([...event.dataTransfer.files]);
  };

  const choose = (files: File[]) => {
    onFiles(files);
    // Without this, choosing a file that failed a second time would go unnoticed.
    resetChooser.current?.();
  };

  return (
    <div
      className={classes.zone}
      data-testid="upload-dropzone"
      data-over={over || undefined}
      onDragEnter={enter}
      onDragLeave={leave}
      onDragOver={(event) => event.preventDefault()}
      onDrop={drop}
    >
      <IconUpload size={26} stroke={1.5} className={classes.icon} aria-hidden />
      <div>
        <Text fw={600} size="sm">
          Drop model files here
        </Text>
        <Text size="xs" c="dimmed">
          {formats.length > 0
            ? formats.join(" · ")
            : "No worker has said yet which formats it reads"}
        </Text>
      </div>
      <FileButton
        multiple
        resetRef={resetChooser}
        onChange={choose}
        inputProps={{ "aria-label": "Model files" }}
      >
        {(props) => (
          <Button variant="default" size="xs" {...props}>
            Choose files
          </Button>
        )}
      </FileButton>
    </div>
  );
}
