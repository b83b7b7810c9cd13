// The script of a form whose button is disabled once it was pressed.
import { enhance } from "./retrysafe.js";

enhance(document.forms[0]);
