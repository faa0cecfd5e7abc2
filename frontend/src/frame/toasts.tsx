/** The place of toasts, where screen readers notice them. */
import type { JSX } from "preact";
import { useParts } from "../talk/fetched.ts";
import { toasts } from "./ui.ts";

export function Toasts(): JSX.Element {
  const open = toasts.value.filter((toast) => toast.isOpen());
  const parts = useParts(open.length > 0);
  return (
    <div class="toasts" role="status">
      {parts && open.map((toast) => <parts.ToastCard key={toast.id} toast={toast} />)}
    </div>
  );
}
