// The variables of the environment that set keys of the configuration: POSTRIDER_SECTION_KEY holds the value,
// POSTRIDER_SECTION_KEY_FILE the path of a file that holds it (a secret of Docker or Kubernetes).
import { codeOf, OperatorError } from './errors.ts'
import { whyUnread } from './file-faults.ts'
import { isObject } from './json.ts'
import { readNamed } from './plain-file.ts'
import { parseToml } from './toml.ts'

export type Environment = Record<string, string | undefined>

/** Keys whose values are tables. Their variables hold TOML. */
const TABLES: readonly (readonly [section: string, key: string])[] = [
  ['delivery', 'routes'],
  ['delivery', 'sources'],
]
/** Tables that are only in the file: the user chooses their names. */
const NAMED_TABLES = 'plans'
/** The first domain and user of a new installation. */
const FIRST = ['POSTRIDER_INIT_DOMAIN', 'POSTRIDER_INIT_EMAIL']
/** No values of the server: its configuration file, and the token that the programs of the API reference read. */
const OTHERS = ['POSTRIDER_CONFIG', 'POSTRIDER_TOKEN']
const PREFIX = 'POSTRIDER_'
const FILE = '_FILE'
/** Of several variables so many are named. */
const NAMED = 3
/** More bytes than any value has. */
const MOST = 64 * 1024

const variableOf = (path: readonly string[]): string => PREFIX + path.join('_').toUpperCase()

/** Every key that a variable can set by a plain value: all except tables, and plans, whose names the user chooses. */
export function scalarPaths(defaults: object): string[][] {
  const isEndpoint = (value: object): boolean => 'host' in value && 'port' in value
  const below = (value: unknown, path: string[]): string[][] =>
    isObject(value) && !isEndpoint(value)
      ? Object.entries(value).flatMap(([key, inner]) => below(inner, [...path, key]))
      : [path]
  const tables = new Set(TABLES.map((path) => path.join('.')))
  return Object.entries(defaults)
    .flatMap(([head, value]: [string, unknown]) => (head === NAMED_TABLES ? [] : below(value, [head])))
    .filter((path) => !tables.has(path.join('.')))
}

/** The value of a variable, or the content of the file that NAME_FILE names. Throws an OperatorError. */
export function variable(environment: Environment, name: string): string | undefined {
  const value = environment[name]
  const file = environment[name + FILE]
  if (file === undefined || file === '') return value
  if (value !== undefined) throw new OperatorError(`${name} and ${name}${FILE} are both set; remove one of the two.`)
  return readValue(file, name + FILE)
}

function readValue(file: string, name: string): string {
  try {
    return readNamed(file, MOST)
      .toString()
      .replace(/\r?\n$/, '')
  } catch (thrown) {
    throw new OperatorError(
      codeOf(thrown) === 'EFBIG'
        ? `${name}: ${file} has more than ${MOST / 1024} KB; use a file that contains only the value.`
        : `${name}: ${file} cannot be read (${whyUnread(thrown)}); check that it exists and that this user can read it.`,
    )
  }
}

/** Puts the values of variables into the tree. Returns the variable that each key came from. */
export function applyEnvironment(
  tree: Record<string, unknown>,
  environment: Environment,
  defaults: object,
): Map<string, string> {
  const origin = new Map<string, string>()
  const put = (path: readonly string[], value: unknown, name: string): void => {
    const key = path.at(-1)
    if (key === undefined) return
    // The schema rejects a value in place of a section later.
    const place = path.slice(0, -1).reduce<unknown>((at, each) => (isObject(at) ? (at[each] ??= {}) : at), tree)
    if (!isObject(place)) return
    place[key] = value
    origin.set(path.join('.'), name)
  }
  for (const [paths, read] of [
    [scalarPaths(defaults), (text: string, path: readonly string[]) => fromText(text, path, defaults)],
    [TABLES, tables],
  ] as const)
    for (const path of paths) {
      const name = variableOf(path)
      const text = variable(environment, name)
      if (text !== undefined) put(path, read(text, path), environment[name] === undefined ? name + FILE : name)
    }
  return origin
}

/** A variable's text as the type of the default value. Lists are separated by commas. */
function fromText(raw: string, path: readonly string[], defaults: object): unknown {
  const model = path.reduce<unknown>((tree, key) => (tree as Record<string, unknown>)[key], defaults)
  if (Array.isArray(model))
    return raw
      .split(',')
      .map((item) => item.trim())
      .filter(Boolean)
  if (typeof model === 'boolean' && /^(?:true|false)$/.test(raw)) return raw === 'true'
  if (typeof model === 'number' && /^\d+(?:\.\d+)?$/.test(raw)) return Number(raw)
  return raw
}

/** The tables of a variable that holds TOML as in the file: [[delivery.routes]]. Throws an OperatorError. */
function tables(raw: string, path: readonly string[]): unknown {
  const name = variableOf(path)
  const [section = '', key = ''] = path
  const tree = parseToml(raw, name)
  const inner = tree[section]
  const found = isObject(inner) ? inner[key] : undefined
  const others = [
    ...Object.keys(tree).filter((each) => each !== section),
    ...Object.keys(isObject(inner) ? inner : {}).filter((each) => each !== key),
  ]
  if (raw.trim() !== '' && (found === undefined || others.length > 0))
    throw new OperatorError(`${name} must contain only [[${path.join('.')}]] tables in TOML.`)
  return found ?? []
}

/** Throws an OperatorError for a variable POSTRIDER_... without a meaning. The error contains the correct name. */
export function demandKnown(environment: Environment, defaults: object): void {
  const settings = [...scalarPaths(defaults), ...TABLES]
  const known = [...settings.map(variableOf), ...FIRST]
  const accepted = new Set([...known, ...known.map((name) => name + FILE), ...OTHERS])
  const strange = Object.keys(environment)
    .filter((name) => name.startsWith(PREFIX) && !accepted.has(name) && !isOfKubernetes(name, environment))
    .sort()[0]
  if (strange === undefined) return
  const [bare, end] = strange.endsWith(FILE) ? [strange.slice(0, -FILE.length), FILE] : [strange, '']
  const advice = ofTable(bare) ?? ofSection(bare, settings) ?? nearest(bare, end, [...known, ...OTHERS])
  throw new OperatorError(`The environment variable ${strange} is not a setting; ${advice}.`)
}

const isBelow = (name: string, above: string): boolean => name === above || name.startsWith(`${above}_`)

/** The fix for a variable of a single key in a table. Only the whole table has a variable. */
function ofTable(name: string): string | undefined {
  if (isBelow(name, variableOf([NAMED_TABLES])))
    return `set [${NAMED_TABLES}.NAME] in the configuration file and remove the variable`
  const table = TABLES.find((path) => isBelow(name, variableOf(path)))
  return table && `use ${variableOf(table)} with all [[${table.join('.')}]] tables in TOML`
}

/** The fix for a variable of a section. Only its keys have variables. */
function ofSection(name: string, settings: readonly (readonly string[])[]): string | undefined {
  const section = settings.flatMap((path) => path.slice(0, -1).map((_, at) => path.slice(0, at + 1)))
  const found = section.find((path) => variableOf(path) === name)
  if (found === undefined) return undefined
  const keys = settings.map(variableOf).filter((each) => each.startsWith(`${name}_`))
  const some = keys.length > NAMED ? ' such as' : ''
  return `use one variable per key of [${found.join('.')}],${some} ${listed(keys)}`
}

/** The variables that are nearest to a name: by its spelling, or by its last words, as LISTEN is to HTTP_LISTEN. */
function nearest(name: string, end: string, known: readonly string[]): string {
  const words = name.slice(PREFIX.length)
  const far = (each: string): number => (words !== '' && each.endsWith(`_${words}`) ? 1 : distance(name, each))
  const least = Math.min(...known.map(far))
  const near = least <= words.length / 3 ? known.filter((each) => far(each) === least) : []
  if (near.length === 0) return 'remove it, or use one listed in docs/configuration.md'
  return `correct it to ${listed(near.map((each) => each + (OTHERS.includes(each) ? '' : end)))}, or remove it`
}

const listed = (names: readonly string[]): string =>
  names
    .slice(0, NAMED)
    .join(', ')
    .replace(/, (?=[^,]*$)/, ' or ')

/** Kubernetes sets such variables in each container for its services. A service may be named "postrider". */
function isOfKubernetes(name: string, environment: Environment): boolean {
  const [, service] =
    /^(POSTRIDER(?:_[A-Z0-9]+)*?)_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)$/.exec(
      name,
    ) ?? []
  return service !== undefined && environment[`${service}_SERVICE_HOST`] !== undefined
}

/** The edit distance: how many characters must be added, removed or changed to turn one text into the other. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let above = 0; above < one.length; above++) {
    let corner = row[0] ?? 0
    let left = above + 1
    row = row.map((up, at) => {
      if (at === 0) return left
      const found = Math.min(up + 1, left + 1, corner + (one[above] === other[at - 1] ? 0 : 1))
      corner = up
      return (left = found)
    })
  }
  return row.at(-1) ?? 0
}
