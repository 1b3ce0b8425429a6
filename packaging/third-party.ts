// The licences of the contents of the executable: Node and every npm package in the bundles.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './node.ts'

export interface Manifest {
  name: string
  version: string
  license?: string
  dependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
}

/** Returns the package.json of a package directory. It also supports the older form of a licence (`licenses`). */
export function manifestOf(folder: string): Manifest {
  const { licenses, ...manifest } = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as Manifest & {
    licenses?: readonly { type: string }[]
  }
  const license = manifest.license ?? licenses?.map(({ type }) => type).join(' OR ')
  return { ...manifest, ...(license === undefined ? {} : { license }) }
}

const RULE = `${'-'.repeat(80)}\n`

/** Returns the licences of package directories such as "node_modules/kysely". Throws if one has no licence. */
export function thirdParty(folders: readonly string[]): string {
  const node = readdirSync(join(ROOT, 'node_modules')).find((name) =>
    /^node-(bin-)?(linux|darwin)-(x64|arm64)$/.test(name),
  )
  const parts = [join('node_modules', node!), ...folders].map((folder) => {
    const { name, version, license } = manifestOf(folder)
    const files = readdirSync(join(ROOT, folder)).filter((file) =>
      /^(licen[cs]e|copying|notice)(?!.*\.(js|ts)$)/i.test(file),
    )
    if (license === undefined && files.length === 0) throw new Error(`${folder} has no licence`)
    const texts = files.map((file) => readFileSync(join(ROOT, folder, file), 'utf8').trim())
    return `${name} ${version}, licence ${license ?? 'as follows'}\n\n${texts.join('\n\n')}\n`
  })
  return `The executable of Postrider holds Node.js and these npm packages.\n\n${RULE}${parts.join(`\n${RULE}`)}`
}
