import type { UseFormReturnType } from "@mantine/form";

import type { Values } from "./values";

export interface FormProps {
  form: UseFormReturnType<Values>;
}
