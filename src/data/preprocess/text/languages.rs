//! English names of languages by their two-letter codes.

/// Code and name of every two-letter language of Babel 2.18.0, from Unicode's CLDR.
#[rustfmt::skip]
const LANGUAGES: [(&str, &str); 159] = [
    ("aa", "Afar"), ("ab", "Abkhazian"), ("af", "Afrikaans"), ("ak", "Akan"), ("am", "Amharic"),
    ("an", "Aragonese"), ("ar", "Arabic"), ("as", "Assamese"), ("az", "Azerbaijani"),
    ("ba", "Bashkir"), ("be", "Belarusian"), ("bg", "Bulgarian"), ("bm", "Bambara"),
    ("bn", "Bangla"), ("bo", "Tibetan"), ("br", "Breton"), ("bs", "Bosnian"), ("ca", "Catalan"),
    ("ce", "Chechen"), ("co", "Corsican"), ("cs", "Czech"), ("cu", "Church Slavic"),
    ("cv", "Chuvash"), ("cy", "Welsh"), ("da", "Danish"), ("de", "German"), ("dv", "Divehi"),
    ("dz", "Dzongkha"), ("ee", "Ewe"), ("el", "Greek"), ("en", "English"), ("eo", "Esperanto"),
    ("es", "Spanish"), ("et", "Estonian"), ("eu", "Basque"), ("fa", "Persian"), ("ff", "Fula"),
    ("fi", "Finnish"), ("fo", "Faroese"), ("fr", "French"), ("fy", "Western Frisian"),
    ("ga", "Irish"), ("gd", "Scottish Gaelic"), ("gl", "Galician"), ("gn", "Guarani"),
    ("gu", "Gujarati"), ("gv", "Manx"), ("ha", "Hausa"), ("he", "Hebrew"), ("hi", "Hindi"),
    ("hr", "Croatian"), ("ht", "Haitian Creole"), ("hu", "Hungarian"), ("hy", "Armenian"),
    ("ia", "Interlingua"), ("id", "Indonesian"), ("ie", "Interlingue"), ("ig", "Igbo"),
    ("ii", "Sichuan Yi"), ("io", "Ido"), ("is", "Icelandic"), ("it", "Italian"),
    ("iu", "Inuktitut"), ("ja", "Japanese"), ("jv", "Javanese"), ("ka", "Georgian"),
    ("ki", "Kikuyu"), ("kk", "Kazakh"), ("kl", "Kalaallisut"), ("km", "Khmer"), ("kn", "Kannada"),
    ("ko", "Korean"), ("ks", "Kashmiri"), ("ku", "Kurdish"), ("kw", "Cornish"), ("ky", "Kyrgyz"),
    ("la", "Latin"), ("lb", "Luxembourgish"), ("lg", "Ganda"), ("ln", "Lingala"), ("lo", "Lao"),
    ("lt", "Lithuanian"), ("lu", "Luba-Katanga"), ("lv", "Latvian"), ("mg", "Malagasy"),
    ("mi", "Māori"), ("mk", "Macedonian"), ("ml", "Malayalam"), ("mn", "Mongolian"),
    ("mr", "Marathi"), ("ms", "Malay"), ("mt", "Maltese"), ("my", "Burmese"),
    ("nb", "Norwegian Bokmål"), ("nd", "North Ndebele"), ("ne", "Nepali"), ("nl", "Dutch"),
    ("nn", "Norwegian Nynorsk"), ("no", "Norwegian"), ("nr", "South Ndebele"), ("nv", "Navajo"),
    ("ny", "Nyanja"), ("oc", "Occitan"), ("om", "Oromo"), ("or", "Odia"), ("os", "Ossetic"),
    ("pa", "Punjabi"), ("pl", "Polish"), ("ps", "Pashto"), ("pt", "Portuguese"), ("qu", "Quechua"),
    ("rm", "Romansh"), ("rn", "Rundi"), ("ro", "Romanian"), ("ru", "Russian"),
    ("rw", "Kinyarwanda"), ("sa", "Sanskrit"), ("sc", "Sardinian"), ("sd", "Sindhi"),
    ("se", "Northern Sami"), ("sg", "Sango"), ("si", "Sinhala"), ("sk", "Slovak"),
    ("sl", "Slovenian"), ("sn", "Shona"), ("so", "Somali"), ("sq", "Albanian"), ("sr", "Serbian"),
    ("ss", "Swati"), ("st", "Southern Sotho"), ("su", "Sundanese"), ("sv", "Swedish"),
    ("sw", "Swahili"), ("ta", "Tamil"), ("te", "Telugu"), ("tg", "Tajik"), ("th", "Thai"),
    ("ti", "Tigrinya"), ("tk", "Turkmen"), ("tn", "Tswana"), ("to", "Tongan"), ("tr", "Turkish"),
    ("ts", "Tsonga"), ("tt", "Tatar"), ("ug", "Uyghur"), ("uk", "Ukrainian"), ("ur", "Urdu"),
    ("uz", "Uzbek"), ("ve", "Venda"), ("vi", "Vietnamese"), ("vo", "Volapük"), ("wa", "Walloon"),
    ("wo", "Wolof"), ("xh", "Xhosa"), ("yi", "Yiddish"), ("yo", "Yoruba"), ("za", "Zhuang"),
    ("zh", "Chinese"), ("zu", "Zulu"),
];

/// The English name of a language by the first two letters of its code, as t5 looks it up.
pub(super) fn english_name(code: &str) -> Option<&'static str> {
    let letters = code.get(..2)?;
    let found = LANGUAGES.binary_search_by_key(&letters, |(code, _)| code);
    found.ok().map(|index| LANGUAGES[index].1)
}
