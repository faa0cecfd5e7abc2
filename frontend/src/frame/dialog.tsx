/** Modal dialogs on the native element: Escape and a click beside it close them, focus goes back by itself. */
import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "../icons.tsx";

type Named = { readonly "aria-label": string } | { readonly "aria-labelledby": string };

type ModalProps = Named & {
  readonly class: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
};

/** What covers the page, so that nothing under it can be reached by mistake. */
export function Modal({ onClose, children, ...about }: ModalProps): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  // at once, and not with the next frame: until then a key would be heard by the page below
  useLayoutEffect(() => {
    const before = document.activeElement;
    const element = ref.current;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      {...about}
      ref={ref}
      // The browser reports a closed dialog late: by then this one may be gone and another one open.
      onClose={({ currentTarget }) => currentTarget.isConnected && onClose()}
      onPointerDown={(event) => event.target === ref.current && onClose()}
    >
      {children}
    </dialog>
  );
}

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** A card with a title over the page. */
export function Dialog({ title, onClose, children }: DialogProps): JSX.Element {
  const titleId = useId();
  return (
    <Modal class="dialog" aria-labelledby={titleId} onClose={onClose}>
      <div class="dialog-card">
        <header class="dialog-head">
          <h2 id={titleId}>{title}</h2>
          <button type="button" class="icon-button" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        </header>
        <div class="dialog-body">{children}</div>
      </div>
    </Modal>
  );
}
