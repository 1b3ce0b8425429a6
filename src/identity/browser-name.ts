// A browser as a person knows it, from the User-Agent header. Anybody may write that header, so only the names of these
// lists are ever shown.

/** The first that fits; many browsers also name others. */
const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\b(?:OPR|Opera)\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\bVivaldi\//, 'Vivaldi'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:HeadlessChrome|Chrome|CriOS|Chromium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/\bcurl\//, 'curl'],
]
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\bAndroid\b/, 'Android'],
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bWindows\b/, 'Windows'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bLinux\b|\bX11\b/, 'Linux'],
]

/** "Chrome on Linux"; "Unknown browser" for what is not known. */
export function browserName(userAgent: string): string {
  const named = (list: typeof BROWSERS): string | undefined => list.find(([sign]) => sign.test(userAgent))?.[1]
  const [browser, system] = [named(BROWSERS), named(SYSTEMS)]
  if (browser === undefined) return system === undefined ? 'Unknown browser' : `A browser on ${system}`
  return system === undefined ? browser : `${browser} on ${system}`
}
