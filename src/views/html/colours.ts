// Colours with readable text, for colours that a user chose (WCAG 2.2). A colour is #rrggbb.

const BLACK = '#000000'
const WHITE = '#ffffff'
/** The minimum contrast of text (WCAG 2.2 §1.4.3). */
const READABLE = 4.5

const channels = (colour: string): number[] => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16))

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channels(colour).map((value) => {
    const share = value / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/** Black or white, whichever is read better on a colour. */
export const inkOn = (colour: string): typeof WHITE | typeof BLACK => (luminance(colour) > 0.179 ? BLACK : WHITE)

function contrast(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].toSorted((a, b) => b - a)
  return (light + 0.05) / (dark + 0.05)
}

/** The colour, darkened or lightened until text of this colour can be read on the paper. */
export function readableOn(paper: string, colour: string): string {
  const ink = channels(inkOn(paper))
  for (let share = 0; share < 1; share += 0.05) {
    const mixed = channels(colour).map((value, at) => Math.round(value + ((ink[at] ?? 0) - value) * share))
    const shown = `#${mixed.map((value) => value.toString(16).padStart(2, '0')).join('')}`
    if (contrast(shown, paper) >= READABLE) return shown
  }
  return inkOn(paper)
}
