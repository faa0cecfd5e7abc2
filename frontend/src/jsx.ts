/** What the build makes of JSX (see build.ts). */
export { Fragment, h } from "preact";
