// The forms of values that several resources take. Messages are made to follow the attribute's name: "subject" must be …
import { z } from 'zod'
import { parseAddress } from '../message/address.ts'

const octets = (text: string): number => Buffer.byteLength(text)
const code = (name: string) => ({ params: { code: name } })

/** Text of one line: no control characters, at most `max` octets or characters. */
export const line = (max: number, unit: 'octets' | 'characters' = 'octets') =>
  z
    .string('must be a string')
    .refine((text) => text.isWellFormed(), 'must be Unicode text without lone surrogates')
    .refine((text) => !/[\p{Cc}\u2028\u2029]/u.test(text), 'must not contain line breaks or control characters')
    .refine((text) => (unit === 'octets' ? octets(text) : Array.from(text).length) <= max, {
      message: `must be at most ${max} ${unit} long`,
      ...code('too_long'),
    })

/** Free text of any number of lines, at most `max` octets. */
export const text = (max: number) =>
  z
    .string('must be a string')
    .refine((value) => value.isWellFormed() && !value.includes('\0'), 'must be Unicode text without NUL')
    .refine((value) => octets(value) <= max, { message: `must be at most ${max} octets long`, ...code('too_long') })

/** One address, with or without display name. */
export const address = () =>
  z
    .string('must be a string')
    .refine(
      (value) => parseAddress(value) !== undefined,
      'must be one email address such as ann@example.org or "Ann" <ann@example.org>',
    )

/** One address or a list of up to `max`; always a list afterwards, without duplicates. */
export const addresses = (max: number) =>
  z.union(
    [address().transform((one) => [one]), z.array(address()).max(max, { error: `must hold at most ${max} addresses` })],
    {
      error: 'must be an email address or a list of email addresses',
    },
  )

/** A name that people give things. */
export const name = () => line(255).refine((value) => value.trim() !== '', 'must not be empty')
