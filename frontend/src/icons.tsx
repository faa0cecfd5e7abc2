/** The icon set: own drawings on a grid of 24, in the colour of the words beside them. */
import type { JSX } from "preact";

const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M16 16l4 4",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h10",
  more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
  pin: "M9 4h6l-.6 5.4 3 3.1v1.5H6.6v-1.5l3-3.1zM12 14v6",
  pencil: "M4.5 19.5l.9-3.9L16 5l3 3L8.4 18.6zM14 7l3 3",
  archive: "M4 5h16v4H4zM5.5 9v10h13V9M10 12.5h4",
  unarchive: "M4 5h16v4H4zM5.5 9v10h13V9M12 17v-5M9.7 14.2L12 11.9l2.3 2.3",
  trash: "M5 7h14M10 4h4M7 7l.8 12.5h8.4L17 7M10.3 10.5v6M13.7 10.5v6",
  fork: "M7 4v16M7 14c0-4 10-2 10-7M17 4.5a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6",
  download: "M12 4v11M7.5 11L12 15.5 16.5 11M5 19.5h14",
  gear: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6M12 3.5v2.3M12 18.2v2.3M3.5 12h2.3M18.2 12h2.3M6 6l1.6 1.6M16.4 16.4L18 18M18 6l-1.6 1.6M7.6 16.4L6 18",
  timeline: "M4 6h7M4 12h12M4 18h5M15 6h5M13 18h7",
  keyboard: "M3.5 7h17v10h-17zM7 10.5h.01M10.3 10.5h.01M13.7 10.5h.01M17 10.5h.01M8.5 14h7",
  send: "M12 19V5.5M6.5 11L12 5.5 17.5 11",
  stop: "M8 8h8v8H8z",
  copy: "M9 9h10.5v10.5H9zM15 9V4.5H4.5V15H9",
  check: "M5 12.5l4.5 4.5L19 7.5",
  retry: "M19.5 12a7.5 7.5 0 1 1-2.3-5.4M19.5 4v4.3h-4.3",
  chevron: "M9.5 6l6 6-6 6",
  down: "M12 5v13.5M6.5 13l5.5 5.5 5.5-5.5",
  attach:
    "M18.5 11.5l-6.7 6.7a4.2 4.2 0 0 1-6-6l7.2-7.2a2.8 2.8 0 0 1 4 4l-7.1 7.1a1.4 1.4 0 0 1-2-2l6.3-6.3",
  tool: "M14.5 7.2a4 4 0 0 1 5-3.2l-2.6 2.7.6 2 2 .6L22 6.8a4 4 0 0 1-5.4 4.7L8.5 19.6a2.1 2.1 0 0 1-3-3l8-8.1z",
  terminal: "M3.5 5h17v14h-17zM7 9.5l3 2.5-3 2.5M12.5 15h4",
  file: "M6 3.5h8l4.5 4.5v12.5H6zM13.5 3.5V8.5h5",
  folder: "M3.5 6h6l2 2.5h9v10.5h-17z",
  globe:
    "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17M3.5 12h17M12 3.5c5 4.5 5 12.5 0 17M12 3.5c-5 4.5-5 12.5 0 17",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 2.5-2.5L20 17M15.5 9h.01",
  brain:
    "M12 5.5v13M12 7c-1-3-6-2.5-5.5 1C3.5 9 3.5 13 6 14c-.5 3.5 4.5 5.5 6 2.5M12 7c1-3 6-2.5 5.5 1 3 1 3 5 .5 6 .5 3.5-4.5 5.5-6 2.5",
  hand: "M8 12V6.2a1.4 1.4 0 0 1 2.8 0V11V4.7a1.4 1.4 0 0 1 2.8 0V11V5.7a1.4 1.4 0 0 1 2.8 0V13M8 12L6.6 10.3a1.4 1.4 0 0 0-2.2 1.7l3 5A6 6 0 0 0 12.5 20.5 5.5 5.5 0 0 0 18 15V8.5a1.3 1.3 0 0 0-1.6-1.3",
  question:
    "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17M9.7 9.5a2.4 2.4 0 1 1 3.4 2.2c-.8.4-1.1.9-1.1 1.8M12 16.5h.01",
  warning: "M12 4.5l8.5 15h-17zM12 10v4.5M12 17h.01",
  clock: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17M12 7.5V12l3 2",
  bolt: "M13 3.5L5.5 13.5h5.5l-1 7 7.5-10h-5.5z",
  swap: "M5 8.5h13M14.5 5L18 8.5 14.5 12M19 15.5H6M9.5 12L6 15.5 9.5 19",
  pause: "M9 6v12M15 6v12",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21M5.6 5.6l1 1M17.4 17.4l1 1M18.4 5.6l-1 1M6.6 17.4l-1 1",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  screen: "M3.5 5h17v11h-17zM9 19.5h6M12 16v3.5",
  signout: "M14 4.5H5v15h9M10 12h10M16.5 8.5L20 12l-3.5 3.5",
  link: "M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.3l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3A4 4 0 0 0 11 18.7l1-1",
  cloud: "M7.5 18.5a4 4 0 0 1-.5-8 5.5 5.5 0 0 1 10.5 1.2 3.5 3.5 0 0 1-.5 6.8z",
  undo: "M8.5 5L4.5 9l4 4M4.5 9h9.5a5.5 5.5 0 0 1 0 11H9",
  filter: "M4 6h16M7 12h10M10 18h4",
  chat: "M4 5h16v11.5h-9L6.5 20v-3.5H4z",
  compose: "M19 12.5v6.5H5V5h6.5M10 14l.6-2.6L18 4l2 2-7.4 7.4z",
  back: "M14.5 6l-6 6 6 6",
  panel: "M3.5 5h17v14h-17zM9.5 5v14",
} as const;

export type IconName = keyof typeof PATHS;

/** An icon; with a title it speaks for itself, without one it is decoration beside words. */
export function Icon({ name, title }: { name: IconName; title?: string }): JSX.Element {
  return (
    <svg
      class="icon"
      viewBox="0 0 24 24"
      role={title ? "img" : undefined}
      aria-label={title}
      aria-hidden={title ? undefined : "true"}
    >
      <path d={PATHS[name]} stroke-width={name === "more" ? 2.6 : undefined} />
    </svg>
  );
}

/** The mark of the product: a ring held by a rope that goes twice around a bar. */
export function Mark({ size = 24 }: { size?: number }): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 32 32" width={size} height={size} aria-hidden="true">
      <rect class="mark-ground" width="32" height="32" rx="9" />
      <path class="mark-line" d="M11 7v18M21 7v18M11 13.5h10M11 18.5h10" />
    </svg>
  );
}
