// The licences of what is inside the executable: Node, and every npm package that the bundles take.
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

/** The package.json of a package folder below the project; the older form of a licence (`licenses`) is read too. */
export function manifestOf(folder: string): Manifest {
  const { licenses, ...manifest } = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as Manifest & {
    licenses?: readonly { type: string }[]
  }
  const license = manifest.license ?? licenses?.map(({ type }) => type).join(' OR ')
  return { ...manifest, ...(license === undefined ? {} : { license }) }
}

const RULE = `${'-'.repeat(80)}\n`

/** `folders` are package folders below the project, such as "node_modules/kysely". Throws when one has no licence. */
export function thirdParty(folders: readonly string[]): string {
  const node = readdirSync(join(ROOT, 'node_modules')).find((name) =>
    /^node-(bin-)?(linux|darwin)-(x64|arm64)$/.test(name),
  )
  const parts = [join('node_modules', node!), ...folders].map((folder) => {
    const { name, version, license } = manifestOf(folder)
    const files = readdirSync(join(ROOT, folder)).filter((file) =>
      /^(licen[cs]e|copying|notice)(?!.*\.(js|ts)$)/i.test(file),
    )
    if (license === undefined && files.length === 0) throw new Error(`${folder} says nothing of its licence`)
    const texts = files.map((file) => readFileSync(join(ROOT, folder, file), 'utf8').trim())
    return `${name} ${version}, licence ${license ?? 'as follows'}\n\n${texts.join('\n\n')}\n`
  })
  return `The executable of Postrider holds Node.js and these npm packages.\n\n${RULE}${parts.join(`\n${RULE}`)}`
}
