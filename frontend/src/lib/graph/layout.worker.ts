/** Lays a graph out beside the page, which stays responsive however large the graph is. */
import { type GraphShape, layoutBlocks } from "./layout";

self.onmessage = (message: MessageEvent<GraphShape>) => {
  self.postMessage(layoutBlocks(message.data));
};
