/** A line of a card about the server: what it is about, and what is so. */
import type { ComponentChildren, JSX } from "preact";

interface FactProps {
  readonly name: string;
  readonly children: ComponentChildren;
}

export function Fact({ name, children }: FactProps): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
