// Names of lanes: the recipient domain; for campaign mail with "~" in front, because no domain name has this character.

const BULK = '~'

export const bulkLane = (domain: string): string => BULK + domain
export const isBulk = (lane: string): boolean => lane.startsWith(BULK)
/** The recipient domain of a lane. */
export const domainOf = (lane: string): string => (isBulk(lane) ? lane.slice(BULK.length) : lane)
