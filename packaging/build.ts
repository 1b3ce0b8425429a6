// Builds dist/postrider: one executable with Node, the program, its workers, the SQLite addon and the assets inside.
//
//   bundle (esbuild) -> copy of node, stripped -> node --build-sea
//
// The order matters: a binary that is stripped after the injection no longer runs.
import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { build } from 'esbuild'

const DIST = new URL('../dist/', import.meta.url).pathname
const ROOT = new URL('..', import.meta.url).pathname
const platform = `${process.platform}-${process.arch}`

// CommonJS dependencies ask for builtins through require, which an ES module does not have.
const BANNER =
  "import{createRequire as __cr}from'node:module';const require=__cr(process.execPath);" +
  'const __filename=process.execPath,__dirname=process.cwd();'

async function bundle(entry: string, outfile: string): Promise<void> {
  await build({
    entryPoints: [ROOT + entry],
    outfile: DIST + outfile,
    bundle: true,
    platform: 'node',
    target: 'node26',
    format: 'esm',
    minify: true,
    keepNames: true,
    // The builtin of that name is deprecated and would print a warning.
    alias: { punycode: 'punycode.js' },
    banner: { js: BANNER },
    logLevel: 'warning',
  })
}

function strip(file: string): void {
  try {
    execFileSync('strip', ['-s', file], { stdio: 'ignore' })
  } catch {
    console.error('strip is not installed: the executable is some 35 MB larger than it need be')
  }
}

mkdirSync(DIST, { recursive: true })
await bundle('bin/postrider.ts', 'main.mjs')
await bundle('src/message/worker.ts', 'worker.mjs')
await bundle('src/inbound/reader.ts', 'reader.mjs')

const node = `${DIST}node`
copyFileSync(process.execPath, node)
chmodSync(node, 0o755)
strip(node)

const output = `${DIST}postrider`
rmSync(output, { force: true })
const sea = {
  main: `${DIST}main.mjs`,
  mainFormat: 'module',
  executable: node,
  output,
  disableExperimentalSEAWarning: true,
  useCodeCache: false,
  useSnapshot: false,
  execArgvExtension: 'none',
  assets: {
    'better_sqlite3.node': `${ROOT}node_modules/better-sqlite3/prebuilds/${platform}.node`,
    'worker.mjs': `${DIST}worker.mjs`,
    'reader.mjs': `${DIST}reader.mjs`,
    ...Object.fromEntries(readdirSync(`${ROOT}config`).map((name) => [name, `${ROOT}config/${name}`])),
  },
}
writeFileSync(`${DIST}sea.json`, JSON.stringify(sea, null, 2))
execFileSync(process.execPath, ['--build-sea', `${DIST}sea.json`], { stdio: 'inherit' })
chmodSync(output, 0o755)
for (const leftover of ['main.mjs', 'worker.mjs', 'reader.mjs', 'node', 'sea.json']) rmSync(DIST + leftover)
console.log(`dist/postrider for ${platform}, ${Math.round(statSync(output).size / 1e6)} MB`)
