mod shaper;
