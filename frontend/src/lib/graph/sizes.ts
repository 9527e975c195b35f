/** Sizes and distances, in the drawing's own units: pixels at natural size. */

/** A Unit's box. */
export const UNIT = { width: 148, height: 36 } as const;

/** The box of a collapsed block. */
export const COLLAPSED = { width: 196, height: 46 } as const;

/** From one layer of a block to the next, and between boxes and lines side by side in one. */
export const LAYER_GAP = 30;
export const BOX_GAP = 16;
export const BEND_GAP = 12;

export const BLOCK_GAP = 32;
export const FRAME_PADDING = 14;
/** Room for the frame's caption. */
export const CAPTION = 24;

/** Lanes beside the stack: from the blocks, and from each other. */
export const LANE_MARGIN = 22;
export const LANE_GAP = 12;
