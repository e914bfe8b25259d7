//! The data sets that T0 trains and is evaluated on. Source: T0 `datasets.csv`.

/// The first training mixture that includes a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Train {
    No,
    /// T0.
    Base,
    /// T0+, which adds data that GPT-3 was evaluated on.
    GptEval,
    /// T0++, which adds SuperGLUE.
    SuperGlue,
}

/// The evaluation that includes a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eval {
    No,
    Base,
    BiasFairness,
}

/// A data set of T0.
pub(super) struct Dataset {
    /// Its name on the hub, and in promptsource.
    pub name: &'static str,
    /// Its configuration; empty for none.
    pub subset: &'static str,
    pub train: Train,
    pub eval: Eval,
    /// Examples of its training split.
    pub train_size: u64,
}

const fn dataset(
    name: &'static str,
    subset: &'static str,
    train: Train,
    eval: Eval,
    train_size: u64,
) -> Dataset {
    Dataset { name, subset, train, eval, train_size }
}

/// All data sets except ANLI, whose rounds are splits.
#[rustfmt::skip]
pub(super) const DATASETS: [Dataset; 65] = [
    dataset("crows_pairs", "", Train::No, Eval::BiasFairness, 0),
    dataset("jigsaw_toxicity_pred", "", Train::No, Eval::BiasFairness, 0),
    dataset("super_glue", "axg", Train::No, Eval::BiasFairness, 0),
    dataset("wino_bias", "type1_anti", Train::No, Eval::BiasFairness, 0),
    dataset("wino_bias", "type2_anti", Train::No, Eval::BiasFairness, 0),
    dataset("wino_bias", "type1_pro", Train::No, Eval::BiasFairness, 0),
    dataset("wino_bias", "type2_pro", Train::No, Eval::BiasFairness, 0),
    dataset("super_glue", "wsc.fixed", Train::SuperGlue, Eval::Base, 554),
    dataset("winogrande", "winogrande_xl", Train::No, Eval::Base, 40_398),
    dataset("super_glue", "cb", Train::No, Eval::Base, 250),
    dataset("super_glue", "rte", Train::No, Eval::Base, 2_490),
    dataset("glue", "mrpc", Train::Base, Eval::No, 3_668),
    dataset("glue", "qqp", Train::Base, Eval::No, 363_846),
    dataset("paws", "labeled_final", Train::Base, Eval::No, 49_401),
    dataset("ai2_arc", "ARC-Challenge", Train::GptEval, Eval::No, 1_119),
    dataset("ai2_arc", "ARC-Easy", Train::GptEval, Eval::No, 2_251),
    dataset("kilt_tasks", "hotpotqa", Train::Base, Eval::No, 88_869),
    dataset("trivia_qa", "unfiltered", Train::GptEval, Eval::No, 87_622),
    dataset("web_questions", "", Train::GptEval, Eval::No, 3_778),
    dataset("wiki_qa", "", Train::Base, Eval::No, 20_360),
    dataset("adversarial_qa", "dbidaf", Train::Base, Eval::No, 10_000),
    dataset("adversarial_qa", "dbert", Train::Base, Eval::No, 10_000),
    dataset("adversarial_qa", "droberta", Train::Base, Eval::No, 10_000),
    dataset("duorc", "SelfRC", Train::Base, Eval::No, 60_721),
    dataset("duorc", "ParaphraseRC", Train::Base, Eval::No, 69_524),
    dataset("ropes", "", Train::Base, Eval::No, 10_924),
    dataset("squad_v2", "", Train::GptEval, Eval::No, 130_319),
    dataset("super_glue", "record", Train::SuperGlue, Eval::No, 100_730),
    dataset("quoref", "", Train::Base, Eval::No, 19_399),
    dataset("cos_e", "v1.11", Train::Base, Eval::No, 9_741),
    dataset("cosmos_qa", "", Train::Base, Eval::No, 25_262),
    dataset("dream", "", Train::Base, Eval::No, 6_116),
    dataset("openbookqa", "main", Train::GptEval, Eval::No, 4_957),
    dataset("qasc", "", Train::Base, Eval::No, 8_134),
    dataset("quail", "", Train::Base, Eval::No, 10_246),
    dataset("quarel", "", Train::Base, Eval::No, 1_941),
    dataset("quartz", "", Train::Base, Eval::No, 2_696),
    dataset("race", "high", Train::GptEval, Eval::No, 62_445),
    dataset("race", "middle", Train::GptEval, Eval::No, 25_421),
    dataset("sciq", "", Train::Base, Eval::No, 11_679),
    dataset("social_i_qa", "", Train::Base, Eval::No, 33_410),
    dataset("super_glue", "boolq", Train::SuperGlue, Eval::No, 9_427),
    dataset("super_glue", "copa", Train::SuperGlue, Eval::Base, 400),
    dataset("super_glue", "multirc", Train::SuperGlue, Eval::No, 27_243),
    dataset("wiki_hop", "original", Train::Base, Eval::No, 43_738),
    dataset("wiqa", "", Train::Base, Eval::No, 29_808),
    dataset("piqa", "", Train::GptEval, Eval::No, 16_113),
    dataset("amazon_polarity", "", Train::Base, Eval::No, 3_600_000),
    dataset("app_reviews", "", Train::Base, Eval::No, 288_065),
    dataset("imdb", "", Train::Base, Eval::No, 25_000),
    dataset("rotten_tomatoes", "", Train::Base, Eval::No, 8_530),
    dataset("yelp_review_full", "", Train::Base, Eval::No, 650_000),
    dataset("story_cloze", "2016", Train::No, Eval::Base, 0),
    dataset("hellaswag", "", Train::GptEval, Eval::Base, 39_905),
    dataset("common_gen", "", Train::Base, Eval::No, 67_389),
    dataset("wiki_bio", "", Train::Base, Eval::No, 582_659),
    dataset("cnn_dailymail", "3.0.0", Train::Base, Eval::No, 287_113),
    dataset("gigaword", "", Train::Base, Eval::No, 3_803_957),
    dataset("multi_news", "", Train::Base, Eval::No, 44_972),
    dataset("samsum", "", Train::Base, Eval::No, 14_732),
    dataset("xsum", "", Train::Base, Eval::No, 204_045),
    dataset("ag_news", "", Train::Base, Eval::No, 120_000),
    dataset("dbpedia_14", "", Train::Base, Eval::No, 560_000),
    dataset("trec", "", Train::Base, Eval::No, 5_452),
    dataset("super_glue", "wic", Train::SuperGlue, Eval::Base, 5_428),
];
