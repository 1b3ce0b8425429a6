// Names of lanes. A lane is named after the recipient domain. Campaign mail has "~" in front. Mail bound to a route (a
// source, or a relay, delivery/queue/ways.ts) has "|" and that route at the end. Domain names never have these
// characters.

const BULK = '~'
const BOUND = '|'
/** The character after "|". */
const AFTER_BOUND = '}'

export const bulkLane = (domain: string): string => BULK + domain
export const isBulk = (lane: string): boolean => lane.startsWith(BULK)

/** The lane of the same mail before it was bound. */
export function unboundLane(lane: string): string {
  const end = lane.indexOf(BOUND)
  return end < 0 ? lane : lane.slice(0, end)
}

export function domainOf(lane: string): string {
  const unbound = unboundLane(lane)
  return isBulk(unbound) ? unbound.slice(BULK.length) : unbound
}

export const boundLane = (unbound: string, way: string): string => unbound + BOUND + way

/** Before the name of a relay, in a way. */
const RELAY = '>'
export const wayBy = (relay: string): string => RELAY + relay

/** The name of the relay to which a lane is bound, or undefined. */
export function relayIn(lane: string): string | undefined {
  const way = boundTo(lane)
  return way?.startsWith(RELAY) ? way.slice(RELAY.length) : undefined
}

/** The route to which a lane is bound, or undefined. */
export function boundTo(lane: string): string | undefined {
  const end = lane.indexOf(BOUND)
  return end < 0 ? undefined : lane.slice(end + BOUND.length)
}

/** The recipient domain of a lane in SQL. */
export const domainInSql = (column: string): string =>
  `ltrim(substr(${column}, 1, instr(${column} || '${BOUND}', '${BOUND}') - 1), '${BULK}')`

/** Between these two names are all bound lanes of an unbound one, and no others. */
export const boundBetween = (unbound: string): [string, string] => [unbound + BOUND, unbound + AFTER_BOUND]
