/** The page as a whole: signed in or not. */
import type { JSX } from "preact";
import { connection } from "../state.ts";
import { Layout } from "./layout.tsx";
import { SignIn } from "./sign_in.tsx";

export function App(): JSX.Element {
  return connection.value === "signed-out" ? <SignIn /> : <Layout />;
}
