// Archives in the format ustar whose octets depend on nothing but what is put in: names in order, one time for all,
// folders above a name by themselves.

export type Entry =
  | { kind: 'file'; content: Buffer; mode?: number }
  | { kind: 'link'; target: string }
  | { kind: 'folder'; mode?: number; owner?: number }

/** What lies in a tree, by its path without a slash at either end. */
export type Tree = Map<string, Entry>

const BLOCK = 512
const FLAGS = { file: '0', link: '2', folder: '5' } as const
const MODES = { file: 0o644, link: 0o777, folder: 0o755 } as const
/** Octets of the fields of a header for the name and for what stands before it. */
const NAME = 100
const PREFIX = 155

/** The archive. `time` (s) is that of every entry; what names no owner is root's. */
export function tar(tree: Tree, time: number): Buffer {
  const whole = withFolders(tree)
  const paths = [...whole.keys()].sort()
  const parts = paths.flatMap((path) => {
    const entry = whole.get(path)!
    const content = entry.kind === 'file' ? entry.content : Buffer.alloc(0)
    return [header(path, entry, time), content, Buffer.alloc(-content.length & (BLOCK - 1))]
  })
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)])
}

/** The tree with every folder that is above an entry. */
function withFolders(tree: Tree): Tree {
  const whole: Tree = new Map(tree)
  for (const path of tree.keys())
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      const above = path.slice(0, end)
      if (!whole.has(above)) whole.set(above, { kind: 'folder' })
    }
  return whole
}

function header(path: string, entry: Entry, time: number): Buffer {
  const block = Buffer.alloc(BLOCK)
  const [prefix, name] = split(entry.kind === 'folder' ? `${path}/` : path)
  const octal = (value: number, width: number, at: number): void =>
    void block.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at, 'latin1')
  const owner = entry.kind === 'folder' ? (entry.owner ?? 0) : 0
  block.write(name, 0)
  octal(('mode' in entry ? entry.mode : undefined) ?? MODES[entry.kind], 8, 100)
  octal(owner, 8, 108)
  octal(owner, 8, 116)
  octal(entry.kind === 'file' ? entry.content.length : 0, 12, 124)
  octal(time, 12, 136)
  // The sum is that of a header whose field for it is blank.
  block.fill(' ', 148, 156)
  block.write(FLAGS[entry.kind], 156)
  if (entry.kind === 'link') block.write(entry.target, 157)
  block.write('ustar\u000000', 257, 'latin1')
  block.write(prefix, 345)
  block.write(
    `${block
      .reduce((sum, octet) => sum + octet, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
    148,
    'latin1',
  )
  return block
}

/** What goes before the name, and the name. Throws for a path that the format cannot hold. */
function split(path: string): [prefix: string, name: string] {
  if (Buffer.byteLength(path) <= NAME) return ['', path]
  for (let at = path.indexOf('/'); at > 0; at = path.indexOf('/', at + 1))
    if (at <= PREFIX && path.length - at - 1 <= NAME && at < path.length - 1)
      return [path.slice(0, at), path.slice(at + 1)]
  throw new Error(`${path} is too long for a tar archive`)
}
