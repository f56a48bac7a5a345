/** Compiles where the extension is one that pi takes. */

import type { ExtensionFactory } from "@earendil-works/pi-coding-agent";
import neuralstream from "./index.ts";

export const factory: ExtensionFactory = neuralstream;
