/** The path under which a reverse proxy serves this page; empty at the root of its host. */
const OWN = new URL(import.meta.url);

// Every script is in the folder `assets`. Tests run from files.
export const MOUNT = OWN.protocol.startsWith("http")
  ? OWN.pathname.slice(0, OWN.pathname.lastIndexOf("/assets/"))
  : "";
