/** The page as a whole: signed in or not. */
import type { JSX } from "preact";
import { connection } from "../state.ts";
import { Layout } from "./layout.tsx";
import { Panel } from "./panel.tsx";

export function App(): JSX.Element {
  // most people are signed in, and need no way in
  if (connection.value === "signed-out") return <Panel name="SignIn" onClose={() => location.reload()} />;
  return <Layout />;
}
