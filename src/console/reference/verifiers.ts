// The functions that verify the signature of a webhook request, from docs/webhooks.md.
import { shippedText } from '../../base/assets.ts'
import { must } from '../../base/errors.ts'
import type { SampleLanguage } from './samples.ts'

/** The marks of the code blocks in the document. */
const MARKS = { Node: 'ts', Python: 'python', PHP: 'php', Go: 'go' } as const

export function verifiers(): [language: SampleLanguage, code: string][] {
  const blocks = shippedText('docs', 'webhooks.md').split('\n```')
  return Object.entries(MARKS).map(([language, mark]) => {
    const block = blocks.find((each) => each.startsWith(`${mark}\n`))
    return [language as SampleLanguage, must(block, `The verifier in ${language}`).slice(mark.length + 1)]
  })
}
