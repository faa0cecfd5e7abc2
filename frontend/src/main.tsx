/** Where the page begins. */
import { render } from "preact";
import { followAddress } from "./frame/address.ts";
import { App } from "./frame/app.tsx";
import { followKeys } from "./frame/commands.ts";
import { followNews } from "./frame/notify.ts";
import { followTheme } from "./frame/theme.ts";
import { followWidth } from "./frame/ui.ts";
import { followFamily, followInbox, start } from "./state.ts";

followTheme();
followWidth();
followKeys();
followNews();
followInbox();
followFamily();
const page = document.getElementById("page");
page?.replaceChildren();
if (page) render(<App />, page);
start();
followAddress();
