// npm run sbom: dist/postrider_VERSION_ARCH.cdx.json, the contents of the executable of each architecture, and of the
// image.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { DIST } from './executable.ts'
import { ROOT } from './node.ts'
import { releaseBills } from './parts.ts'

mkdirSync(DIST, { recursive: true })
for (const [name, text] of await releaseBills()) {
  const file = join(DIST, name)
  writeFileSync(file, text)
  console.log(relative(ROOT, file))
}
