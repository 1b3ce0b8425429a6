// What SPDX 2.3 asks of a document, for the fields that our bills of materials have (clauses 6, 7 and 11): their forms,
// the values of their lists, and which must be there. Other fields are refused.

const text = { type: 'string', minLength: 1 }
const only = (properties: Record<string, object>, optional: readonly string[] = []): object => ({
  type: 'object',
  properties,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
  additionalProperties: false,
})
const list = (items: object): object => ({ type: 'array', items, minItems: 1 })
const id = { type: 'string', pattern: '^SPDXRef-[a-zA-Z0-9.-]+$' }
/** An expression of licences (annex D). */
const licence = { type: 'string', pattern: String.raw`^(?:NOASSERTION|NONE|[A-Za-z0-9.+() -]+)$` }

const spdxPackage = only(
  {
    SPDXID: id,
    name: text,
    versionInfo: text,
    downloadLocation: { enum: ['NOASSERTION', 'NONE'] },
    filesAnalyzed: { const: false },
    primaryPackagePurpose: { enum: ['APPLICATION', 'CONTAINER', 'LIBRARY'] },
    licenseConcluded: licence,
    licenseDeclared: licence,
    copyrightText: text,
    checksums: list({
      oneOf: [
        only({ algorithm: { const: 'SHA256' }, checksumValue: { type: 'string', pattern: '^[0-9a-f]{64}$' } }),
        only({ algorithm: { const: 'SHA512' }, checksumValue: { type: 'string', pattern: '^[0-9a-f]{128}$' } }),
      ],
    }),
    externalRefs: list({
      oneOf: [
        only({
          referenceCategory: { const: 'PACKAGE-MANAGER' },
          referenceType: { const: 'purl' },
          referenceLocator: { type: 'string', pattern: String.raw`^pkg:[a-z]+/[^\s@]+@[^\s@]+$` },
        }),
        only({
          referenceCategory: { const: 'SECURITY' },
          referenceType: { const: 'cpe23Type' },
          referenceLocator: { type: 'string', pattern: String.raw`^cpe:2\.3:a:[\w.-]+:[\w.-]+:[\w.-]+(?::\*){7}$` },
        }),
      ],
    }),
  },
  ['checksums'],
)

export const SPDX = only({
  spdxVersion: { const: 'SPDX-2.3' },
  dataLicense: { const: 'CC0-1.0' },
  SPDXID: { const: 'SPDXRef-DOCUMENT' },
  name: text,
  documentNamespace: { type: 'string', format: 'uri', pattern: '^[^#]+$' },
  creationInfo: only({
    created: { type: 'string', pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, format: 'date-time' },
    creators: list({ type: 'string', pattern: '^(?:Tool|Organization|Person): .+' }),
  }),
  packages: list(spdxPackage),
  relationships: list(
    only({
      spdxElementId: id,
      relationshipType: { enum: ['DESCRIBES', 'CONTAINS', 'DEPENDS_ON'] },
      relatedSpdxElement: id,
    }),
  ),
})
