/** What an edge can end at: a Unit, by its position, or a collapsed block. */

/** The number of a block among the nodes; Units have theirs from 0 on. */
export const blockNode = (block: number) => -1 - block;
