// The API for commands: a command makes the requests of a user who has signed in to the console as an operator, so that
// a rule exists once. It is loaded when a command needs it, because its packages would slow down every start.
import { refuse, type Code } from '../base/errors.ts'
import { Budget } from '../base/memory.ts'
import { RateLimit } from '../base/rates.ts'
import { Space } from '../base/space.ts'
import { Troubles } from '../base/trouble.ts'
import type { Deps } from './command/open.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { createInside } from '../jsonapi/in-process-api.ts'
import type { Caller, Resource } from '../jsonapi/resource.ts'
import { SCOPES } from '../jsonapi/scopes.ts'
import { fetchingOf } from '../net/fetch.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { db } from '../store/query.ts'
import {
  askInside,
  rowsOf,
  thingOf,
  worded,
  type Answer,
  type AskedDocument,
  type Labels,
  type Thing,
} from './html/visit.ts'

type UserRow = Pick<RowOf<'users'>, 'email' | 'id' | 'key'>

const none = (): void => {}

/** The dependencies of API actions in a command. It has no loops: a running server notices its changes. */
const partsOf = (deps: Deps): ApiDeps => ({
  ...deps,
  fetching: fetchingOf(deps),
  troubles: new Troubles(deps),
  space: new Space({ dataDir: deps.config.data_dir, reserve: () => 0 }),
  spamAssassin: '',
  rates: new RateLimit(deps.clock, 0, 0),
  ports: { starttls: [], tls: [] },
  bodies: new Budget(Infinity),
  bells: {
    domains: none,
    deliveries: none,
    queue: none,
    webhooks: none,
    campaigns: none,
    privacy: none,
    notices: none,
  },
})

const callerFor = ({ email, id, key }: UserRow): Caller => ({
  userKey: key,
  userId: id,
  tokenId: 'command',
  via: 'command',
  scopes: new Set(SCOPES),
  operator: true,
  person: { key, email },
})

const pathTo = ({ self = '' }: Resource, id: string): string => self.replace(/:\w+/, id)

/** Throws the error of a refused request. `labels`: the options of the command by the names of attributes. */
function accepted(answer: Answer, labels: Labels): Answer {
  const [error] = answer.errors
  if (error) throw refuse(error.code as Code, worded(error, labels).replace(/^"(--[\w-]+)"/, '$1'))
  return answer
}

/** The account of a user, as the API shows it. Refusals are thrown. */
export class CommandAccount {
  readonly user: UserRow
  readonly #ask: (method: string, path: string, document?: AskedDocument) => Promise<Answer>

  constructor(user: UserRow, inside: ReturnType<typeof createInside>) {
    this.user = user
    this.#ask = (method, path, document) => askInside(inside, callerFor(user), { method, path, document })
  }

  async create<R extends Resource>(resource: R, attributes: object, labels: Labels = {}): Promise<Thing<R>> {
    const { type } = resource
    const { one } = accepted(await this.#ask('POST', `/${type}`, { type, attributes: { ...attributes } }), labels)
    return thingOf(resource, one!)
  }

  async update<R extends Resource>(resource: R, id: string, attributes: object): Promise<void> {
    const document = { type: resource.type, id, attributes: { ...attributes } }
    accepted(await this.#ask('PATCH', pathTo(resource, id), document), {})
  }

  async remove(resource: Resource, id: string): Promise<void> {
    accepted(await this.#ask('DELETE', pathTo(resource, id)), {})
  }

  /** All rows of a list. */
  async all<R extends Resource>(resource: R, path = `/${resource.type}`): Promise<Thing<R>[]> {
    const rows = await rowsOf(async (page) => accepted(await this.#ask('GET', page), {}), path)
    return rows.map((row) => thingOf(resource, row))
  }
}

export interface CommandApi {
  as: (user: UserRow) => CommandAccount
  /** The accounts of all users. */
  accounts: () => CommandAccount[]
  /** The rows of a list in the accounts of all users, the oldest first, each with its account. */
  rows: <R extends Resource>(resource: R) => Promise<{ account: CommandAccount; row: Thing<R> }[]>
}

/**
 * The API of some resources. `parts`: additional dependencies of their actions. The actions of `related`, which they
 * refer to, are not used.
 */
export function apiOf<Parts extends object>(
  deps: Deps,
  resources: readonly Resource<ApiDeps & Parts>[],
  { parts, related = [] }: { parts: Parts; related?: readonly Resource[] },
): CommandApi {
  const known = [...resources, ...(related as unknown as readonly Resource<ApiDeps & Parts>[])]
  const inside = createInside({ ...partsOf(deps), ...parts }, () => deps.config.http.public_url, known)
  const as = (user: UserRow): CommandAccount => new CommandAccount(user, inside)
  const accounts = (): CommandAccount[] => deps.store.all(db.selectFrom('users').select(['email', 'id', 'key'])).map(as)
  return {
    as,
    accounts,
    async rows(resource) {
      const found = accounts().map(async (account) => (await account.all(resource)).map((row) => ({ account, row })))
      return (await Promise.all(found)).flat().toSorted((a, b) => (a.row.id < b.row.id ? -1 : 1))
    },
  }
}
