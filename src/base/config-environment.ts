// The variables of the environment that set keys of the configuration: POSTRIDER_SECTION_KEY holds the value,
// POSTRIDER_SECTION_KEY_FILE the path of a file that holds it (a secret of Docker or Kubernetes).
import { closeSync, readSync } from 'node:fs'
import { codeOf, OperatorError } from './errors.ts'
import { isObject } from './json.ts'
import { openPlain } from './plain-file.ts'
import { parseToml } from './toml.ts'

export type Environment = Record<string, string | undefined>

/** Keys whose values are tables; their variables hold TOML. */
const TABLES: readonly (readonly [section: string, key: string])[] = [
  ['delivery', 'routes'],
  ['delivery', 'sources'],
]
/**
 * Other variables: the configuration file, the first domain and user of a new installation, and the token that the
 * programs of the API reference read.
 */
const OTHERS = ['POSTRIDER_CONFIG', 'POSTRIDER_INIT_DOMAIN', 'POSTRIDER_INIT_EMAIL', 'POSTRIDER_TOKEN']
const FILE = '_FILE'
/** More octets than any value has. */
const MOST = 64 * 1024

const variableOf = (path: readonly string[]): string => `POSTRIDER_${path.join('_').toUpperCase()}`

/** Every key that a variable can set by a plain value: all except tables, and plans, whose names the user chooses. */
export function scalarPaths(defaults: object): string[][] {
  const isEndpoint = (value: object): boolean => 'host' in value && 'port' in value
  const below = (value: unknown, path: string[]): string[][] =>
    isObject(value) && !isEndpoint(value)
      ? Object.entries(value).flatMap(([key, inner]) => below(inner, [...path, key]))
      : [path]
  const tables = new Set(TABLES.map((path) => path.join('.')))
  return Object.entries(defaults)
    .flatMap(([head, value]: [string, unknown]) => (head === 'plans' ? [] : below(value, [head])))
    .filter((path) => !tables.has(path.join('.')))
}

/** The value of a variable, or what is in the file that NAME_FILE names. Throws an OperatorError. */
export function variable(environment: Environment, name: string): string | undefined {
  const value = environment[name]
  const file = environment[name + FILE]
  if (file === undefined || file === '') return value
  if (value !== undefined) throw new OperatorError(`${name} and ${name}${FILE} are both set; remove one of the two.`)
  return readValue(file, name + FILE)
}

function readValue(file: string, name: string): string {
  const octets = Buffer.alloc(MOST + 1)
  let length = 0
  try {
    const handle = openPlain(file, { links: true })
    try {
      length = readSync(handle, octets, 0, octets.length, 0)
    } finally {
      closeSync(handle)
    }
  } catch (thrown) {
    throw new OperatorError(
      `${name}: ${file} cannot be read (${codeOf(thrown)}); check that it exists and that this user may read it.`,
    )
  }
  if (length > MOST) throw new OperatorError(`${name}: ${file} has more than ${MOST / 1024} KB; no value is so long.`)
  return octets.toString('utf8', 0, length).replace(/\r?\n$/, '')
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
    // The schema refuses a value in the place of a section later.
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

/** A variable's text as the type of the default value; lists are separated by commas. */
function fromText(raw: string, path: readonly string[], defaults: object): unknown {
  const model = path.reduce<unknown>((tree, key) => (tree as Record<string, unknown>)[key], defaults)
  if (Array.isArray(model))
    return raw
      .split(',')
      .map((item) => item.trim())
      .filter(Boolean)
  if (typeof model === 'boolean' && /^(?:true|false)$/.test(raw)) return raw === 'true'
  if (typeof model === 'number' && /^\d+$/.test(raw)) return Number(raw)
  return raw
}

/** The tables of a variable that holds TOML as it stands in the file: [[delivery.routes]]. Throws an OperatorError. */
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
    throw new OperatorError(`${name} must be the tables [[${path.join('.')}]] in TOML, and nothing else.`)
  return found ?? []
}

/** Throws an OperatorError for a variable POSTRIDER_... that has no meaning, with the nearest name that has one. */
export function demandKnown(environment: Environment, defaults: object): void {
  const known = [...OTHERS, ...[...scalarPaths(defaults), ...TABLES].map(variableOf)]
  const withFiles = new Set([...known, ...known.map((name) => name + FILE)])
  const strange = Object.keys(environment)
    .filter((name) => name.startsWith('POSTRIDER_') && !withFiles.has(name) && !isOfKubernetes(name, environment))
    .sort()[0]
  if (strange === undefined) return
  const [bare, end] = strange.endsWith(FILE) ? [strange.slice(0, -FILE.length), FILE] : [strange, '']
  const far = new Map(known.map((name) => [name, distance(bare, name)]))
  const [nearest, apart = Infinity] = [...far].sort(([, one], [, other]) => one - other)[0] ?? []
  const near = apart <= bare.length / 2 ? `correct it to ${nearest}${end}, or remove it` : 'remove it'
  throw new OperatorError(`The variable ${strange} is not a setting; ${near}.`)
}

/** Kubernetes tells each container of its services in such variables; a service may be named "postrider". */
function isOfKubernetes(name: string, environment: Environment): boolean {
  const [, service] =
    /^(POSTRIDER(?:_[A-Z0-9]+)*?)_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)$/.exec(
      name,
    ) ?? []
  return service !== undefined && environment[`${service}_SERVICE_HOST`] !== undefined
}

/** How many characters must be added, removed or changed to make one text of the other. */
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
