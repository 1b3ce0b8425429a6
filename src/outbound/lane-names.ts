// What lanes are called: by the recipient domain, and those of campaign mail with a mark in front that no domain has.

const BULK = '~'

export const bulkLane = (domain: string): string => BULK + domain
export const isBulk = (lane: string): boolean => lane.startsWith(BULK)
/** Where a lane's mail goes. */
export const domainOf = (lane: string): string => (isBulk(lane) ? lane.slice(BULK.length) : lane)
