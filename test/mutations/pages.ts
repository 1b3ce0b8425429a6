// Parsers of HTML and of what people type: pages, templates, searches.
import { bodyOf, partsOf } from '../../src/campaigns/body-parts.ts'
import { harmless } from '../../src/views/html/harmless.ts'
import { isBeyondBounds } from '../../src/message/html-bounds.ts'
import { plainText } from '../../src/message/compose.ts'
import { languageOf, withFooter } from '../../src/message/footer.ts'
import { hasUnsubscribeLink } from '../../src/message/leave-link.ts'
import { countPlaceholders, filledText, htmlForm } from '../../src/message/variables.ts'
import { cutTemplate, placesOfTags, strayBraces } from '../../src/message/template.ts'
import { cutHtml } from '../../src/message/html-tags.ts'
import { endOfBody, readPictures } from '../../src/message/html-tokens.ts'
import { isHarmless, readLinks, readTargets } from '../../src/message/tracking.ts'
import { addressesIn } from '../../src/privacy/held.ts'
import { around, both, of, text, type Parser } from './parser.ts'

const HTML = of(
  '<p>Hello <b>you</b></p><ul><li>a</li></ul>',
  '<a href="https://x.test/?a=b&amp;c">x</a>',
  '<table><tr><td>',
  '<div>',
  '&amp;',
  '<',
  '<!--',
  '<a ',
  '<a<',
  'href="',
  "<a href='{{x}}",
  '<iframe src=a>',
  '<img src="cid:a" alt=',
  '<img ',
  '<p style="display:none">',
  '</p>',
  '<svg><math><style>',
  '<a\thref=java\tscript:x>',
)

const LEFTOVER = around(
  ['<style>', '.a,.b>#c{display:none}', '</style><p class="a">{{unsubscribe_url}}</p>'],
  ['<style>', '{', '</style>'],
  ['<style>', '/*', ''],
  ['', '<style>', ''],
  ['', '<style></style', ''],
  ['<a href="{{unsubscribe_url}}">', '<b>&zwnj;', '</a>'],
  ['', '<p><a href="{{unsubscribe_url}}">', ''],
  ['<p style="', 'opacity : 0 ; ', '">{{unsubscribe_url}}'],
  ['<p style="', '/* */', '">'],
  ['<p style="width:', '0', '1">'],
  ['<p style="font-size:', '0', '.1">'],
  ['<p style="opacity:', '0', '1">'],
  ['', '<title>', ''],
)

export const PAGES: Record<string, Parser> = {
  'parts of a campaign’s HTML': {
    files: ['campaigns/body-parts.ts'],
    seeds: around(
      ['<div data-preview="" style="display:none;max-height:0;overflow:hidden;mso-hide:all">', 'a&amp;', '</div>\n'],
      ['<meta name="design" content="{&quot;design&quot;:&quot;letter', '&quot;', '}"><!--text-->\n\n<!--/text-->'],
    ),
    parse: (bytes) => bodyOf(partsOf(text(bytes))),
  },
  'links of pages': {
    files: ['message/tracking.ts', 'message/html-tokens.ts'],
    seeds: HTML,
    parse: (bytes) => [
      [...readLinks(text(bytes))],
      [...readTargets(text(bytes))],
      isHarmless(text(bytes)),
      endOfBody(text(bytes)),
    ],
  },
  'templates of pages': {
    files: ['message/html-tags.ts'],
    seeds: both(
      HTML,
      of('{{<b>name</b>}}', '{&#123;', '{{&eacute;', '&nbsp;', '&#125;}', '{<i>{', '</i>', '&#124;', '|', '<!--'),
    ),
    parse: (bytes) => cutHtml(text(bytes)),
  },
  templates: {
    files: ['message/template.ts'],
    seeds: of('{{name}} ', '{{name|friend}} ', '{{', '{{ a', '{{{{}}}}', 'a {{b c}}', '{{ '),
    parse: (bytes) => [strayBraces(cutTemplate(text(bytes))), placesOfTags(text(bytes))],
  },
  placeholders: {
    files: ['message/variables.ts'],
    seeds: of(
      '{{name}} ',
      '{{ a',
      '{{',
      '}}',
      '%recipient.name%',
      '%recipient.',
      '%',
      '<b>',
      '{"values":{"name":"',
      '"}}',
    ),
    parse: (bytes) =>
      (['mustache', 'percent'] as const).map((syntax) => [
        [...countPlaceholders(syntax, text(bytes))],
        filledText(syntax, text(bytes), { name: text(bytes).slice(0, 100) }, htmlForm(syntax)),
      ]),
  },
  'pages as text': { files: ['message/compose.ts'], seeds: HTML, parse: (bytes) => plainText(text(bytes)) },
  'bounds of pages': {
    files: ['message/html-bounds.ts'],
    seeds: both(HTML, LEFTOVER),
    parse: (bytes) => isBeyondBounds(text(bytes)),
  },
  'ways to leave': {
    files: ['message/leave-link.ts'],
    seeds: both(HTML, LEFTOVER),
    parse: (bytes) => hasUnsubscribeLink(text(bytes)),
  },
  'footers of campaigns': {
    files: ['message/footer.ts'],
    seeds: both(HTML, LEFTOVER, of('<html lang=', '<html ', '<body lang = "de" ', '<head', '</head ', '<script>')),
    parse: (bytes) => [languageOf(text(bytes)), withFooter({ html: text(bytes), text: text(bytes) }, true)],
  },
  'pages in the console': { files: ['views/html/harmless.ts'], seeds: HTML, parse: (bytes) => harmless(text(bytes)) },
  'pictures of pages': {
    files: ['message/html-tokens.ts'],
    seeds: HTML,
    parse: (bytes) => [...readPictures(text(bytes))],
  },
  'addresses in texts': {
    files: ['privacy/held.ts'],
    seeds: of('Ann <ann@there.test>, ', 'a', 'a@', '@', 'a@b.', "a@b.test'}.", '.'),
    parse: (bytes) => [...addressesIn(text(bytes))],
  },
}
