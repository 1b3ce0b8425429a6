// Checks of `postrider doctor` for what a container changes: where the data lie, who the clients seem to be, and which
// address mail leaves by.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../base/config.ts'
import { BEHIND_NAT, defaultGateway, inContainer } from '../base/container.ts'
import { isPublic } from '../base/network.ts'
import { withStore, type Invocation } from '../commands/open.ts'
import { DATABASE } from '../store/open.ts'
import { db } from '../store/query.ts'
import { fileSystemOf, lostWith, type FileSystem } from '../store/volume.ts'
import { bad, warn, type Finding } from './doctor-machine.ts'
import { judgeWayOut, ownSources, type World } from './doctor-network.ts'

/** How many received messages are looked at, and how many must have come before they say something. */
const LOOKED_AT = 100
const FEW = 5

/** A finding where the data directory lies on a file system that does not keep it; none elsewhere. */
export function judgeFileSystem(
  { data_dir }: Pick<Config, 'data_dir'>,
  kind: FileSystem | undefined = fileSystemOf(data_dir),
): Finding[] {
  const check = 'file system'
  if (kind === undefined) return []
  const lost = lostWith(kind)
  if (lost !== undefined)
    return [warn(check, `what is in ${data_dir} does not last: it lies in ${lost}`, `Mount a volume at ${data_dir}.`)]
  return [bad(check, `${data_dir} lies on ${kind}, where the locks of the database do not hold`, 'Put it on a disk.')]
}

/** A finding where all clients of port 25 seem to be the gateway of the container's network; none elsewhere. */
export async function judgeClients(asked: Invocation, { data_dir }: Pick<Config, 'data_dir'>): Promise<Finding[]> {
  const gateway = defaultGateway()
  if (!inContainer() || gateway === undefined || !existsSync(join(data_dir, DATABASE))) return []
  const clients = await withStore(asked, (store) =>
    store
      .all(db.selectFrom('inbound_messages').select('client').orderBy('key', 'desc').limit(LOOKED_AT))
      .map(({ client }) => client),
  )
  return judgeAddresses(clients, gateway)
}

/** The finding about the addresses that received messages came from. */
export const judgeAddresses = (clients: readonly string[], gateway: string): Finding[] =>
  clients.length < FEW || clients.some((client) => client !== gateway)
    ? []
    : [warn('clients', `${BEHIND_NAT.detail} (${gateway})`, BEHIND_NAT.mend)]

/** Whether mail can be sent, and whether it leaves by an address whose reverse entry is checked. */
export async function judgeOut(world: World, probe: string): Promise<Finding[]> {
  const { finding, seenAs } = await judgeWayOut(world, probe)
  const seen = await judgeSeen(world, seenAs)
  return seen === undefined ? [finding] : [finding, seen]
}

/** Whether the address that an exchanger saw is one whose reverse entry is checked. */
export async function judgeSeen(world: World, seen: string | undefined): Promise<Finding | undefined> {
  if (seen === undefined || !isPublic(seen)) return undefined
  const own = await ownSources(world)
  const known = (own ?? []).map(({ address }) => address)
  if (own === undefined || known.includes(seen)) return undefined
  const { hostname } = world.config
  return bad(
    'address out',
    `mail leaves by ${seen}, but ${hostname} and its reverse entry are ${known.join(', ') || 'of no address'}`,
    `Let mail leave by the address of ${hostname} ("delivery.source", in a container the network of the host), or publish ${seen} for ${hostname} and have its reverse entry (PTR) name it.`,
  )
}
