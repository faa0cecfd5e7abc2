/** Components that render again only when one of their properties is another one. */
import { Component, type ComponentChild, type FunctionComponent, type JSX } from "preact";

export function memo<Props extends object>(view: FunctionComponent<Props>): (props: Props) => JSX.Element {
  class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      // properties are always the same ones here, so that those of the next time tell all
      for (const name in next) if (next[name] !== (this.props as Readonly<Props>)[name]) return true;
      return false;
    }

    override render(props: Props): ComponentChild {
      const View = view;
      return <View {...props} />;
    }
  }
  return Memo as unknown as (props: Props) => JSX.Element;
}
