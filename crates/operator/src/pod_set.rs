//! The controller of `StrimziPodSet` resources: pods that are listed exist, others do not.
