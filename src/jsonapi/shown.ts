// The types of a resource in answers: names and values that follow from its description.
import type { z } from 'zod'
import type { Field, Resource } from './resource.ts'

/** The value of an attribute in answers. */
type ValueOf<F extends Field> = F extends { answer: infer Answer extends z.ZodType }
  ? z.output<Answer>
  : F extends { kind: 'time' }
    ? string
    : z.output<F['schema']>

/**
 * The attributes of a resource in answers. Each may be absent (lists omit some, and some are shown only once), and each
 * may be null, because the stored value may be corrupt.
 */
export type AttributesOf<R extends Resource> = {
  [Name in keyof R['attributes'] as R['attributes'][Name] extends { read: 'never' } ? never : Name]?: ValueOf<
    R['attributes'][Name]
  > | null
}

/** Related resources by the names of the relationships. */
export type LinkageOf<R extends Resource> = {
  [Name in keyof NonNullable<R['relationships']>]?: { data: { type: string; id: string } | null }
}

/** The names of the attributes whose values are of a kind. */
export type NamesOf<Attributes, Kind> = {
  [Name in keyof Attributes]-?: NonNullable<Attributes[Name]> extends Kind ? Name : never
}[keyof Attributes]

/** The attributes shown only in a document about one resource: lists do not read their columns. */
export const unlisted = ({ attributes }: Resource<never>): string[] =>
  Object.entries(attributes).flatMap(([name, { read }]) => (read === 'single' ? [name] : []))

/** Whether a sparse fieldset names an attribute that lists do not read (D69). */
export const namesUnlisted = (resource: Resource<never>, fields: ReadonlyMap<string, ReadonlySet<string>>): boolean => {
  const wanted = fields.get(resource.type)
  return wanted !== undefined && unlisted(resource).some((name) => wanted.has(name))
}
